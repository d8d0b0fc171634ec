"""Output for other programs: JSON, malloc_info's XML, malloc_stats' text, profiles for pprof."""
