"""What the exports of ae-format share: the answers of agents, as conversations and with their times."""
