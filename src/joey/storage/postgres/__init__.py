"""Tasks in Postgres, shared by the hosts of a cluster: store, journals, index and leases."""
