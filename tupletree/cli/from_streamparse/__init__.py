"""``tupletree import-streamparse``: a project of streamparse becomes one that is submitted here."""
