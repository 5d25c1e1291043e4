"""The watcher: tells the service of training jobs that fail on Kubernetes. It reads, and changes nothing but its lease."""
