"""Methods, problems, data and measures that several experiments use: imports the harness and no experiment."""
