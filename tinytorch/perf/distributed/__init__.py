"""Training and measuring on several ranks: processes on this machine or on many, which talk through MPI."""
