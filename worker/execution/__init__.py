"""The threads of a worker (run loops), and the executors and inboxes that they drive."""
