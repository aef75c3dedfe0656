//! Sources of the files of a model: a folder, or the program itself.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::generation::GenerationConfig;
use crate::tokenizer::Tokenizer;

/// The files of the embedded model.
const CONFIG: &str = include_str!("../assets/bytes/config.json");
pub(crate) const WEIGHTS: &[u8] = include_bytes!("../assets/bytes/model.safetensors");
const TOKENIZER: &str = include_str!("../assets/bytes/tokenizer.json");

/// The files of a model.
///
/// ```
/// use aleatron_transformer::{LoadOptions, ModelSource, Transformer};
///
/// let source = ModelSource::named("bytes".as_ref());
/// assert_eq!(source, ModelSource::Embedded);
/// let model = Transformer::load(&source, &LoadOptions::default())?;
/// assert_eq!(model.tokenizer()?.encode("Emma")?, [69, 109, 109, 97]);
/// # Ok::<(), aleatron_transformer::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ModelSource {
    /// A folder of Hugging Face files: `config.json`, `.safetensors` files, and
    /// `generation_config.json` and `tokenizer.json` if they exist.
    Folder(PathBuf),
    /// The embedded model: 650,112 parameters, a token is a byte. `assets/bytes/README.md`
    /// describes it.
    Embedded,
}

impl ModelSource {
    /// The name of the embedded model.
    pub const EMBEDDED_NAME: &str = "bytes";

    /// Text that the embedded model was not trained on.
    pub const EMBEDDED_TEXT: &str = include_str!("../assets/bytes/held_out.txt");

    /// Returns the embedded model for its name, and otherwise a folder. `./bytes` is a folder.
    #[must_use]
    pub fn named(path: &Path) -> Self {
        match path.as_os_str() == Self::EMBEDDED_NAME {
            true => Self::Embedded,
            false => Self::Folder(path.to_owned()),
        }
    }

    /// Returns the name of the model: the last component of its folder.
    #[must_use]
    pub fn name(&self) -> String {
        let Self::Folder(folder) = self else { return Self::EMBEDDED_NAME.to_owned() };
        let absolute = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| folder.display().to_string())
    }

    /// Reads the configuration. Its end tokens are those of generation.
    ///
    /// # Errors
    /// As [`Config::read`] and [`GenerationConfig::read`].
    pub fn config(&self) -> Result<Config> {
        Ok(self.configs()?.0)
    }

    /// Reads the configuration and the defaults of generation, whose end tokens replace those of
    /// the configuration.
    pub(crate) fn configs(&self) -> Result<(Config, GenerationConfig)> {
        let (mut config, path) = match self {
            Self::Folder(folder) => {
                (Config::read(&folder.join("config.json"))?, folder.join("generation_config.json"))
            }
            Self::Embedded => {
                let config = Config::parse(CONFIG, Path::new("bytes/config.json"))?;
                let generation = GenerationConfig::of_config(&config);
                return Ok((config, generation));
            }
        };
        let generation = match path.exists() {
            true => GenerationConfig::read(&path)?,
            false => GenerationConfig::of_config(&config),
        };
        config.end_tokens.clone_from(&generation.end_tokens);
        Ok((config, generation))
    }

    /// Reads the tokenizer; `None` if the folder has no tokenizer.
    ///
    /// # Errors
    /// As [`Tokenizer::read`].
    pub fn tokenizer(&self) -> Result<Option<Tokenizer>> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join("tokenizer.json");
                if path.exists() { Tokenizer::read(&path).map(Some) } else { Ok(None) }
            }
            Self::Embedded => {
                Tokenizer::parse(TOKENIZER.as_bytes(), Path::new("bytes/tokenizer.json")).map(Some)
            }
        }
    }

    /// Reads a file that describes the model, such as `config.json`; `None` if it does not exist.
    pub(crate) fn description(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                if !path.is_file() {
                    return Ok(None);
                }
                std::fs::read(&path).map(Some).map_err(|source| Error::File { path, source })
            }
            Self::Embedded => Ok(match name {
                "config.json" => Some(CONFIG.into()),
                "tokenizer.json" => Some(TOKENIZER.into()),
                _ => None,
            }),
        }
    }
}
