"""What the user can put right: every error that is shown as one line, with exit status 2, derives from this."""


class InputError(Exception):
    """Something is wrong with what was asked for; the message says what, and the remedy."""
