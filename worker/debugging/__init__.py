"""Tools that operators switch on at a running topology: log levels, sampled tuples, traced trees."""
