"""The stories: what each business intention does to keys, told over one settling step."""
