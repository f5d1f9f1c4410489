"""What tests share: servers, waiting, webs."""
