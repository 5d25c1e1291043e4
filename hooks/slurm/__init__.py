"""What runs on a Slurm cluster."""
