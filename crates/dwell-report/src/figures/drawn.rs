//! A figure that was drawn, as files.

use super::scene::Scene;
use super::table::Table;
use crate::ReportError;

/// What a figure's file gives: shapes, and the numbers that they show.
pub(super) struct Drawing {
    pub(super) scene: Scene,
    pub(super) table: Table,
}

dwell_events::choices! {
    /// A format of figures.
    FigureFormat {
        /// Vectors, with text as text and its font embedded.
        Svg = "svg",
        /// Vectors, with text as text and its font embedded.
        Pdf = "pdf",
        /// 300 dots per inch.
        Png = "png",
    }
}

/// A figure that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnFigure {
    name: String,
    scene: Scene,
    table: Table,
}

impl DrawnFigure {
    pub(super) fn new(name: String, drawing: Drawing) -> Self {
        Self { name, scene: drawing.scene, table: drawing.table }
    }

    /// Its name; files have it too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// It as SVG.
    pub fn svg(&self) -> String {
        self.scene.svg()
    }

    /// The numbers that it shows.
    pub fn csv(&self) -> String {
        self.table.csv()
    }

    /// It as a file of a format.
    pub fn file(&self, format: FigureFormat) -> Result<Vec<u8>, ReportError> {
        let refused = || ReportError::Drawing {
            figure: self.name.clone(),
            reason: format!("{} mm by {} mm are too large for PNG", self.scene.width_mm, self.scene.height_mm),
        };
        match format {
            FigureFormat::Svg => Ok(self.svg().into_bytes()),
            FigureFormat::Pdf => Ok(self.scene.pdf()),
            FigureFormat::Png => self.scene.png().ok_or_else(refused),
        }
    }
}
