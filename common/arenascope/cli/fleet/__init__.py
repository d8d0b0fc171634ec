"""Engines that spread looks over machines: dask.distributed and Ray. arenascope has no scheduler of its own."""
