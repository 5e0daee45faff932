"""Sources of pipelines, one file each."""
