use super::super::layers::Layers;
use super::super::testing::{Memory, sources};

#[test]
fn an_environment_that_is_not_here_may_be_covered_by_a_later_layer() {
    let env = Memory::new().file(
        "/work/b.yaml",
        "agent: {system_template: s, instance_template: i}\n\
         environment:\n  image: x\n  environment_class: contree\n",
    );
    let text = env.resolve(&["b.yaml"]).unwrap_err().to_string();
    for part in [
        "`environment.environment_class` is `contree`, which this version does not have",
        "b.yaml:4:22",
        "-c environment.environment_class=local",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let local = "environment.environment_class=local";
    let config = env.resolve(&["b.yaml", local]).unwrap();
    assert_eq!(config.environment.environment_class, "local");
}

#[test]
fn an_interpreter_in_a_file_of_mini_means_nothing_to_local_commands() {
    let yaml = "agent: {system_template: s, instance_template: i}\n\
                environment: {interpreter: [bash, -lc]}\n";
    let env = Memory::new().file("/work/a.yaml", yaml).file(
        "/work/a.toml",
        "environment.interpreter = [\"zsh\", \"-c\"]\n",
    );
    let docker = "environment.environment_class=docker";
    for (configs, interpreter, told) in [
        (&["a.yaml"][..], &["/bin/sh", "-c"][..], true),
        (
            &["a.yaml", docker, "environment.image=x"],
            &["bash", "-lc"],
            false,
        ),
        // typed on the command line, so it is deliberate
        (
            &["a.yaml", "environment.interpreter=[\"x\"]"],
            &["x"],
            false,
        ),
        (&["a.yaml", "a.toml"], &["zsh", "-c"], false),
    ] {
        let layers = env.load(configs).unwrap();
        assert_eq!(
            layers.resolve().unwrap().environment.interpreter,
            interpreter,
            "{configs:?}"
        );
        let warned = layers
            .warnings()
            .iter()
            .any(|text| text.contains("interpreter"));
        assert_eq!(warned, told, "{configs:?}: {:?}", layers.warnings());
    }
}

#[test]
fn classes_of_environments_have_their_own_defaults() {
    let yaml = "agent: {system_template: s, instance_template: i}\nenvironment: {image: x}\n";
    let mini = "agent: {system_template: s, instance_template: i}\n\
                environment: {image: x, environment_class: docker, wrapper_args: []}\n";
    let env = Memory::new()
        .file("/work/a.yaml", yaml)
        .file("/work/b.yaml", mini);
    let class = "environment.environment_class";
    let idle = |key: &str, class: &str, of: &str, at: &str| {
        vec![format!(
            "`environment.{key}` has no effect in the class `{class}`: it is for `{of}` (set at {at})"
        )]
    };
    let none = Vec::new();
    let (bash, sh) = (&["bash", "-lc"][..], &["/bin/sh", "-c"][..]);
    for (configs, class, cwd, interpreter, warnings) in [
        (&[][..], "local", "", &[][..], none.clone()),
        (&["environment.image=x"], "docker", "/", bash, none.clone()),
        (
            &["environment.image=x", &format!("{class}=podman")],
            "podman",
            "/",
            bash,
            none.clone(),
        ),
        (
            &["environment.image=x", &format!("{class}=local")],
            "local",
            "",
            &[],
            idle(
                "image",
                "local",
                "docker`, `podman`, `singularity`, `apptainer`, `bubblewrap",
                "-c environment.image=x",
            ),
        ),
        (
            &[
                "environment.image=x",
                "environment.interpreter=[\"sh\", \"-c\"]",
                "environment.cwd=/w",
            ],
            "docker",
            "/w",
            &["sh", "-c"],
            none.clone(),
        ),
        (
            &[&format!("{class}=bubblewrap")],
            "bubblewrap",
            "",
            &["bash", "-c"],
            none.clone(),
        ),
        (
            &[
                &format!("{class}=bubblewrap"),
                "environment.interpreter=[\"sh\", \"-c\"]",
            ],
            "bubblewrap",
            "",
            &["sh", "-c"],
            none.clone(),
        ),
        (
            &[
                &format!("{class}=bubblewrap"),
                "environment.image=/images/x",
            ],
            "bubblewrap",
            "/",
            &["bash", "-c"],
            none.clone(),
        ),
        // As in mini-swe-agent, where the default class is `local`.
        (
            &["a.yaml"],
            "local",
            "",
            sh,
            idle(
                "image",
                "local",
                "docker`, `podman`, `singularity`, `apptainer`, `bubblewrap",
                "a.yaml:2",
            ),
        ),
        (
            &["b.yaml"],
            "docker",
            "/",
            bash,
            idle("wrapper_args", "docker", "bubblewrap", "b.yaml:2"),
        ),
    ] {
        let layers = env.load(configs).unwrap();
        let environment = layers.resolve().unwrap().environment;
        assert_eq!(environment.environment_class, class, "{configs:?}");
        assert_eq!(environment.cwd, cwd, "{configs:?}");
        assert_eq!(environment.interpreter, interpreter, "{configs:?}");
        assert_eq!(layers.warnings(), warnings, "{configs:?}");
    }
    // `--image` ranks above the layer that names the class.
    let with_image = |configs: &[&str], class: Option<&str>| {
        let flag =
            |key: &str, value: &str, flag: &str| (key.to_owned(), value.into(), flag.to_owned());
        let mut sources = sources(configs);
        sources
            .flags
            .push(flag("environment.image", "y", "--image"));
        if let Some(class) = class {
            let key = "environment.environment_class";
            sources.flags.push(flag(key, class, "--environment-class"));
        }
        let layers = Layers::load(&sources, &env).unwrap();
        let shown = layers.show(true);
        let config = layers.resolve().map_err(|error| error.to_string())?;
        assert!(
            shown.contains("environment.image = \"y\"  # flag --image"),
            "{shown}"
        );
        let class = config.environment.environment_class;
        assert!(
            shown.contains(&format!("environment_class = \"{class}\"")),
            "{shown}"
        );
        Ok::<_, String>(class)
    };
    let local = format!("{class}=local");
    assert_eq!(with_image(&["a.yaml"], None).unwrap(), "docker");
    assert_eq!(with_image(&[&local], None).unwrap(), "docker");
    assert_eq!(with_image(&[], Some("podman")).unwrap(), "podman");
    assert_eq!(with_image(&[], Some("bubblewrap")).unwrap(), "bubblewrap");
    let refused = with_image(&[], Some("local")).unwrap_err();
    assert!(
        refused.contains("`--image` has no effect in the class `local`"),
        "{refused}"
    );
    // The output of `config show` loads again and has the same meaning.
    let given = env
        .load(&["environment.image=x", "environment.cpus=2"])
        .unwrap();
    let again = env.file("/work/shown.toml", &given.show(false));
    let again = again.load(&["shown.toml"]).unwrap();
    assert_eq!(again.warnings(), Vec::<String>::new());
    assert_eq!(again.resolve().unwrap(), given.resolve().unwrap());
    let env = Memory::new();
    for wish in [
        &["environment.sandbox_network=false"][..],
        &["environment.sandbox_network=false", "environment.image=x"],
    ] {
        let text = env.resolve(wish).unwrap_err().to_string();
        assert!(text.contains("does not switch off the network"), "{text}");
    }
    let landlock = [
        "environment.sandbox_network=false",
        "environment.sandbox=landlock",
    ];
    env.resolve(&landlock).unwrap();
    for (class, image) in [
        ("docker", "environment.image=x"),
        ("bubblewrap", "environment.cwd="),
        ("apptainer", "environment.image=x"),
    ] {
        let class = format!("environment.environment_class={class}");
        env.resolve(&["environment.session=true", image, &class])
            .unwrap();
    }
    env.resolve(&["environment.session=true"]).unwrap();
    env.resolve(&["environment.session=true", "environment.pty=true"])
        .unwrap();
    for wish in [
        &["environment.pty=true"][..],
        &["environment.pty=true", "environment.session=false"],
    ] {
        let text = env.resolve(wish).unwrap_err().to_string();
        for part in [
            "no effect without `environment.session` = true",
            "add `environment.session=true`",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
    let text = env
        .resolve(&[&format!("{class}=docker")])
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("needs an image") && text.contains("--image"),
        "{text}"
    );
}

#[test]
fn another_place_needs_what_it_is_reached_by() {
    let env = Memory::new();
    for (class, given, told) in [
        ("remote", &[][..], "needs the address of a server"),
        (
            "remote",
            &["url=https://h:1"],
            "needs the token of its server",
        ),
        ("remote", &["token_file=t"], "needs the address of a server"),
        ("remote", &["url=https://h:1", "token_file=t"], ""),
        ("remote", &["url=https://h:1", "token_env=T"], ""),
        (
            "remote",
            &["url=https://h:1", "token_env=T", "token_file=t"],
            "are both set",
        ),
        ("swerex", &[], "`swerex-remote`"),
        (
            "swerex",
            &["url=http://h:1"],
            "needs the token of its server",
        ),
        ("swerex", &["url=http://h:1", "token_env=T"], ""),
        (
            "swerex",
            &["url=http://h:1", "token_env=T", "session=true"],
            "",
        ),
        ("command", &[], "needs the program that reaches its place"),
        (
            "command",
            &["connect=[]"],
            "needs the program that reaches its place",
        ),
        ("command", &["connect=[\"ssh\",\"h\"]"], ""),
    ] {
        let mut wish = vec![format!("environment.environment_class={class}")];
        wish.extend(given.iter().map(|pair| format!("environment.{pair}")));
        let wish: Vec<&str> = wish.iter().map(String::as_str).collect();
        match env.resolve(&wish) {
            Ok(_) => assert_eq!(told, "", "{given:?}"),
            Err(error) => {
                let text = error.to_string();
                assert!(!told.is_empty() && text.contains(told), "{text}");
            }
        }
    }
}

#[test]
fn a_file_that_bash_reads_first_in_an_image_is_not_read_here() {
    let env = Memory::new();
    let set = "environment.env.BASH_ENV=/root/.bashrc";
    let given = Some("/root/.bashrc");
    for (more, wanted) in [
        (&["environment.image=x"][..], given),
        (&["environment.environment_class=local"], None),
        (&["environment.environment_class=bubblewrap"], None),
        (
            &[
                "environment.environment_class=bubblewrap",
                "environment.image=/x",
            ],
            given,
        ),
        (&["environment.environment_class=local", set], given),
    ] {
        for preset in ["swebench", "swebench_backticks", "swebench_xml"] {
            let configs = [&[preset], more].concat();
            let config = env.resolve(&configs).unwrap();
            let found = config.environment.env.get("BASH_ENV");
            assert_eq!(found.map(String::as_str), wanted, "{configs:?}");
        }
    }
}
