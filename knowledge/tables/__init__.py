"""Codes that NVIDIA, CUDA, Slurm and Unix define, each table one YAML file with the module that reads it."""
