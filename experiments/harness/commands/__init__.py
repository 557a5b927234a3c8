"""One command a module: `add(commands, catalogue)` describes its options and sets `call`, which carries it out.

Nothing may import NumPy before `call` has set the thread variables, so the modules import the runner inside it.
"""
