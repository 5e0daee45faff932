"""The threads of a worker and what they drive: executors, their inboxes, run loops."""
