"""`make demo`: word count on a whole cluster of this machine, with crashes on the way, compared with the truth."""
