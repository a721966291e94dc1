//! The runtimes, and the packages of the versions that dwell knows.

use std::path::{Path, PathBuf};

use dwell_packages::npm::{NpmError, NpmPackage, NpmSettings};

/// What runs a model in the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    /// llama.cpp in WebAssembly.
    Wllama,
    /// ONNX models, in WebAssembly or on WebGPU.
    TransformersJs,
    /// Models compiled by MLC, on WebGPU.
    WebLlm,
}

impl Runtime {
    /// Every runtime.
    pub const ALL: [Self; 3] = [Self::Wllama, Self::TransformersJs, Self::WebLlm];

    /// The names of all.
    pub const NAMES: [&'static str; 3] = ["wllama", "transformers_js", "webllm"];

    /// The runtime of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.name() == name)
    }

    /// Its name in addresses and options.
    pub fn name(self) -> &'static str {
        let [wllama, transformers_js, webllm] = Self::NAMES;
        match self {
            Self::Wllama => wllama,
            Self::TransformersJs => transformers_js,
            Self::WebLlm => webllm,
        }
    }

    /// The version that is used unless another one is asked for.
    pub fn default_release(self) -> &'static Release {
        match self {
            Self::Wllama => &WLLAMA,
            Self::TransformersJs => &TRANSFORMERS_JS,
            Self::WebLlm => &WEBLLM,
        }
    }
}

/// A version of a runtime.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// The runtime.
    pub runtime: Runtime,
    /// Each package with the folder that it is served in, the runtime's own first.
    packages: &'static [(&'static str, NpmPackage)],
}

/// Every release that can be fetched.
static RELEASES: [&Release; 4] = [&WLLAMA, &TRANSFORMERS_JS, &WEBLLM, &WEBLLM_OF_V0_2_48];

static WLLAMA: Release = Release {
    runtime: Runtime::Wllama,
    packages: &[(
        "wllama",
        NpmPackage {
            name: "@wllama/wllama",
            version: "3.8.1",
            sha512: "Pl7BEJhPU8OHnV/yhn3DFZYhLLOdSHh+4TND79WCftHnlUAdQPAsyc/CfIOY+4mVxvf5VW3Xw3Uf7BBfotS1gw==",
            archive_bytes: 5_829_483,
            folder: "esm",
        },
    )],
};

static TRANSFORMERS_JS: Release = Release {
    runtime: Runtime::TransformersJs,
    packages: &[
        (
            "transformers_js",
            NpmPackage {
                name: "@huggingface/transformers",
                version: "4.3.1",
                sha512: "5+voSeUCFK6PCKlY15dPhNOKq3/zOTxDN7oC+Wy9dFb1QZ0TSQomZRRy7URRK8YRuUoE9fGMQTTPC5d/pWBJhA==",
                archive_bytes: 2_268_123,
                folder: "dist",
            },
        ),
        (
            "onnxruntime_web",
            NpmPackage {
                name: "onnxruntime-web",
                version: "1.31.0-dev.20260914-8d85527a0",
                sha512: "Iy7rtadoBgxS/LLvDr3QW38DB1PNXRnr0GJMcL0TAt7c9qjgVQl83UlGCVyeAnK2InpmW8Uc3PL8XIuqtDeF6g==",
                archive_bytes: 33_185_781,
                folder: "dist",
            },
        ),
    ],
};

static WEBLLM: Release = Release {
    runtime: Runtime::WebLlm,
    packages: &[(
        "webllm",
        NpmPackage {
            name: "@mlc-ai/web-llm",
            version: "0.2.85",
            sha512: "CwUiSAvDCYnmAZlpPMkurPHDfBLq6fvdRB3vRgoA894hRG/V/BSeY9bmMm6iIIU5VpjJxfb/dLPpJX2at0L9rw==",
            archive_bytes: 4_545_586,
            folder: "lib",
        },
    )],
};

/// A model's compiled library fits one series of versions: those of v0_2_48 need this one.
static WEBLLM_OF_V0_2_48: Release = Release {
    runtime: Runtime::WebLlm,
    packages: &[(
        "webllm",
        NpmPackage {
            name: "@mlc-ai/web-llm",
            version: "0.2.79",
            sha512: "Hy1ZHQ0o2bZGZoVnGK48+fts/ZSKwLe96xjvqL/6C59Mem9HoHTcFE07NC2E23mRmhd01tL655N6CPeYmwWgwQ==",
            archive_bytes: 4_243_159,
            folder: "lib",
        },
    )],
};

/// The unpacked packages of a runtime.
#[derive(Clone, Debug)]
pub struct RuntimeFiles {
    pub(crate) release: &'static Release,
    /// Each folder with the name that it is served under.
    pub(crate) folders: Vec<(&'static str, PathBuf)>,
}

impl Release {
    /// The release of a runtime with this version, if dwell knows it.
    pub fn of(runtime: Runtime, version: &str) -> Option<&'static Self> {
        RELEASES.into_iter().find(|release| release.runtime == runtime && release.version() == version)
    }

    /// The versions of a runtime that dwell knows, the default one first.
    pub fn versions(runtime: Runtime) -> Vec<&'static str> {
        RELEASES.into_iter().filter(|release| release.runtime == runtime).map(Release::version).collect()
    }

    /// The version of the runtime's own package.
    pub fn version(&self) -> &'static str {
        self.packages.first().map_or("", |(_, package)| package.version)
    }

    /// The packages that are not in the cache, or damaged there.
    pub fn missing(&self, cache: &Path) -> Vec<NpmPackage> {
        let packages = self.packages.iter().map(|(_, package)| *package);
        packages.filter(|package| package.cached(cache).is_err()).collect()
    }

    /// Its packages in the cache, if all are there and whole.
    pub fn cached(&'static self, cache: &Path) -> Result<RuntimeFiles, NpmError> {
        self.files(&mut |package| package.cached(cache))
    }

    /// Its packages; those that are missing in the cache or damaged there are downloaded. `progress` is told which package, how
    /// many bytes of its archive there are, and how many there will be if that is known.
    pub fn fetch(
        &'static self,
        settings: &NpmSettings,
        cache: &Path,
        progress: &mut dyn FnMut(&NpmPackage, u64, Option<u64>),
    ) -> Result<RuntimeFiles, NpmError> {
        self.files(&mut |package| {
            let told = &mut |done_bytes, total_bytes| progress(package, done_bytes, total_bytes);
            package.cached(cache).or_else(|_| package.fetch(settings, cache, told))
        })
    }

    fn files(
        &'static self,
        folder: &mut dyn FnMut(&NpmPackage) -> Result<PathBuf, NpmError>,
    ) -> Result<RuntimeFiles, NpmError> {
        let folders = self.packages.iter().map(|(name, package)| Ok((*name, folder(package)?)));
        Ok(RuntimeFiles { release: self, folders: folders.collect::<Result<_, NpmError>>()? })
    }
}

impl RuntimeFiles {
    /// What was unpacked.
    pub fn release(&self) -> &'static Release {
        self.release
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_release_of_a_runtime_is_its_default() {
        for runtime in Runtime::ALL {
            let default = runtime.default_release();
            assert_eq!((default.runtime, Some(&default.version())), (runtime, Release::versions(runtime).first()));
            assert_eq!(Release::of(runtime, default.version()), Some(default));
            assert_eq!(default.packages[0].0, runtime.name(), "the page looks for a runtime under its name");
        }
        assert_eq!(Release::of(Runtime::Wllama, "0.0.0"), None);
    }
}
