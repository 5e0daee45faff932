"""The logs of workers, for the UI and the command line: files, search, tail."""
