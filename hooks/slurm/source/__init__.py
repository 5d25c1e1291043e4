"""The hook, module by module; `hooks.slurm.assemble` makes one file of them. Python 3.6, standard library only."""
