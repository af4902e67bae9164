//! Runs actions in a container: docker, podman, and what is called like them.

mod engine;
