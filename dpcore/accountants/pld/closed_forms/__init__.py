"""What has a closed form: plain Gaussians, a single step, laws that hardly differ, laws that hardly overlap."""
