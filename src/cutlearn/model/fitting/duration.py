"""How long a fit takes, reckoned before it begins."""
