"""Links to other workers and to ackers, and what is gathered for them."""
