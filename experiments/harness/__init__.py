"""What runs, judges, times, stores and draws any experiment: nothing that knows of a particular one may enter."""
