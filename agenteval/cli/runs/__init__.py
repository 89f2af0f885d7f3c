"""What happens beside a run of agents: --dry-run, the notice of a wrong schema."""
