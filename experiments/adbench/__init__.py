"""The problems of ADBench: what only this experiment needs."""
