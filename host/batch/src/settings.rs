//! The config of each instance: the config of the batch, with the values of the manifest for the
//! instance.

use std::collections::HashMap;
use std::path::Path;

use mswea_config::{Config, Layers, ProcessEnvironment, Sources};
use serde_json::Value;

use crate::error::BatchError;
use crate::manifest::BatchInstance;

/// The classes of environment that have no image.
const WITHOUT_IMAGE: &[&str] = &["local", "remote", "command", "swerex"];

/// A config and the layers from which it was made.
#[derive(Debug)]
pub(crate) struct ConfigShape {
    pub(crate) layers: Layers,
    pub(crate) config: Config,
}

impl ConfigShape {
    fn resolve(layers: Layers) -> Result<Self, BatchError> {
        let config = layers.resolve()?;
        Ok(Self { layers, config })
    }
}

/// The configs of a batch: an image may change the class of environment, and with it other defaults.
#[derive(Debug)]
pub struct BatchConfig {
    with_image: Option<ConfigShape>,
    without: Option<ConfigShape>,
    /// The configs of instances that have whole configs of their own, by id.
    own: HashMap<String, ConfigShape>,
    warnings: Vec<String>,
}

impl BatchConfig {
    /// Resolves the config for these instances.
    ///
    /// # Errors
    /// [`BatchError::Config`] if it can't be resolved.
    pub fn load(sources: &Sources, instances: &[BatchInstance]) -> Result<Self, BatchError> {
        let bare = Layers::load(sources, &ProcessEnvironment)?;
        let merged = bare.merged();
        let class = merged.pointer("/environment/environment_class");
        let class = class.and_then(Value::as_str).unwrap_or_default();
        let mut warnings = bare.warnings().to_vec();
        let image = instances.iter().find_map(|it| it.image.clone());
        let takes_images = !WITHOUT_IMAGE.contains(&class);
        if image.is_some() && !takes_images {
            warnings.push(format!(
                "the images of the instances have no effect: the class of environment is `{class}`"
            ));
        }
        let image = image.filter(|_| takes_images);
        let some_without = image.is_none() || instances.iter().any(|it| it.image.is_none());
        let with_image = match image {
            Some(image) => {
                let mut sources = sources.clone();
                let flag = "the instances".to_owned();
                let key = "environment.image".to_owned();
                sources.flags.push((key, image.into(), flag));
                Some(ConfigShape::resolve(Layers::load(
                    &sources,
                    &ProcessEnvironment,
                )?)?)
            }
            None => None,
        };
        let without = some_without
            .then(|| ConfigShape::resolve(bare))
            .transpose()?;
        Ok(Self {
            with_image,
            without,
            own: HashMap::new(),
            warnings,
        })
    }

    /// Resolves the config of each instance from its own sources. The first one is the common
    /// config.
    ///
    /// # Errors
    /// [`BatchError`] if one can't be resolved, or if there are none.
    pub fn load_each(sources: &[(String, Sources)]) -> Result<Self, BatchError> {
        let mut own = HashMap::with_capacity(sources.len());
        let mut warnings = Vec::new();
        let mut first = None;
        for (id, sources) in sources {
            let load = || Layers::load(sources, &ProcessEnvironment);
            let layers = load()?;
            let new = layers
                .warnings()
                .iter()
                .filter(|it| !warnings.contains(*it));
            let new: Vec<String> = new.cloned().collect();
            warnings.extend(new);
            own.insert(id.clone(), ConfigShape::resolve(layers)?);
            if first.is_none() {
                first = Some(ConfigShape::resolve(load()?)?);
            }
        }
        if first.is_none() {
            return Err(BatchError::Refused("there are no instances".to_owned()));
        }
        Ok(Self {
            with_image: None,
            without: first,
            own,
            warnings,
        })
    }

    /// Warnings for the user.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The config without the values of an instance.
    pub fn common(&self) -> &Config {
        &self.any().config
    }

    pub(crate) fn any(&self) -> &ConfigShape {
        self.with_image
            .as_ref()
            .or(self.without.as_ref())
            .expect("invariant: `load` makes one of them at least")
    }

    fn shape(&self, instance: &BatchInstance) -> &ConfigShape {
        if let Some(own) = self.own.get(&instance.id) {
            return own;
        }
        let with_image = self
            .with_image
            .as_ref()
            .filter(|_| instance.image.is_some());
        match with_image.or(self.without.as_ref()) {
            Some(shape) => shape,
            None => self.any(),
        }
    }

    /// The config of an instance, and its layers. `folder` is the folder of the instance.
    pub(crate) fn of(&self, instance: &BatchInstance, folder: &Path) -> (Config, &Layers) {
        let shape = self.shape(instance);
        let mut config = shape.config.clone();
        // The path must be absolute, because the model is told it.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let folder = folder.as_path();
        let trajectory = folder.join(format!("{}.traj.json", instance.id));
        config.agent.output_path = Some(trajectory.to_string_lossy().into_owned());
        config.run.task = None;
        config.run.env_startup_command = instance.startup.as_deref().map(verbatim);
        if instance.repo.is_some() {
            config.workspace.repo.clone_from(&instance.repo);
        }
        if instance.base_commit.is_some() {
            config
                .workspace
                .base_commit
                .clone_from(&instance.base_commit);
        }
        let class = config.environment.environment_class.as_str();
        if let Some(image) = &instance.image
            && self.with_image.is_some()
        {
            config.environment.image = Some(named_image(class, image));
        }
        if has_own_folder(&config) {
            let work = work_folder(folder);
            config.environment.cwd = work.to_string_lossy().into_owned();
        }
        (config, &shape.layers)
    }

    /// Whether the instances would share one folder of this machine.
    pub fn shares_a_folder(&self) -> bool {
        let config = self.common();
        self.own.is_empty() && is_local(config) && !config.environment.cwd.is_empty()
    }
}

/// The folder in which the commands of a local instance work.
pub(crate) fn work_folder(folder: &Path) -> std::path::PathBuf {
    folder.join("work")
}

fn is_local(config: &Config) -> bool {
    config.environment.environment_class == "local"
}

/// Whether the batch gives each instance a folder of its own, because the config names no folder.
fn has_own_folder(config: &Config) -> bool {
    is_local(config) && config.environment.cwd.is_empty()
}

/// The image with the prefix that the class needs: singularity has to be told the transport.
fn named_image(class: &str, image: &str) -> String {
    let is_named = image.contains("://")
        || image.starts_with(['/', '.'])
        || Path::new(image).extension().is_some_and(|it| it == "sif");
    match class {
        "singularity" | "apptainer" if !is_named => format!("docker://{image}"),
        _ => image.to_owned(),
    }
}

/// A template that renders to exactly this text.
fn verbatim(text: &str) -> String {
    match text.contains("{%") || text.contains("{{") || text.contains("{#") {
        false => text.to_owned(),
        true => format!("{{{{ {} }}}}", Value::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendered_text_is_rendered_to_itself() {
        let engine = mswea_plugin_host::templates(None);
        for text in ["echo a", "echo '{{ x }}' \"q\" \\n \n {% raw %} {# c #}"] {
            let rendered = engine.render(&verbatim(text), &mswea_core::Object::new());
            assert_eq!(rendered.unwrap(), text);
        }
    }

    #[test]
    fn images_of_classes() {
        for (class, image, expected) in [
            ("docker", "a:1", "a:1"),
            ("singularity", "a:1", "docker://a:1"),
            ("apptainer", "docker://a", "docker://a"),
            ("apptainer", "/images/a.sif", "/images/a.sif"),
            ("singularity", "a.sif", "a.sif"),
        ] {
            assert_eq!(named_image(class, image), expected, "{class} {image}");
        }
    }
}
