//! A scene as PNG, for slides and pages that take no vectors.

use png::{BitDepth, ColorType, Compression, Encoder, PixelDimensions, Unit};
use tiny_skia::{
    Color, FillRule, FilterQuality, Paint, Path, PathBuilder, Pixmap, PixmapPaint, PremultipliedColorU8, StrokeDash,
    Transform,
};
use ttf_parser::OutlineBuilder;

use super::font::{face, glyph};
use super::{Colour, Image, MM_PER_INCH, POINTS_PER_INCH, Scene, Segment, Shape, Stroke, Text};

/// What journals ask for.
const PIXELS_PER_INCH: f64 = 300.0;

impl Scene {
    /// The scene as a PNG file; none if it is too large to be one.
    pub(in crate::figures) fn png(&self) -> Option<Vec<u8>> {
        let pixels = |mm: f64| (mm / MM_PER_INCH * PIXELS_PER_INCH).round() as u32;
        let mut sheet = Pixmap::new(pixels(self.width_mm), pixels(self.height_mm))?;
        sheet.fill(Color::WHITE);
        let scale = (PIXELS_PER_INCH / POINTS_PER_INCH) as f32;
        let transform = Transform::from_scale(scale, scale);
        for shape in &self.shapes {
            match shape {
                Shape::Path { outline, fill, stroke } => draw_path(&mut sheet, outline, *fill, *stroke, transform),
                Shape::Text(text) => draw_text(&mut sheet, text, transform),
                Shape::Image(image) => draw_image(&mut sheet, image, transform),
            }
        }
        let rgb: Vec<u8> = sheet.pixels().iter().flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect();
        let per_meter = (PIXELS_PER_INCH / MM_PER_INCH * 1000.0).round() as u32;
        encoded(sheet.width(), sheet.height(), &rgb, Some(per_meter))
    }
}

/// An image of a scene as a PNG file.
pub(super) fn png_of_image(image: &Image) -> Vec<u8> {
    encoded(image.columns as u32, image.rows() as u32, &image.rgb(), None).unwrap_or_default()
}

fn encoded(width: u32, height: u32, rgb: &[u8], pixels_per_meter: Option<u32>) -> Option<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::High);
    encoder.set_pixel_dims(pixels_per_meter.map(|per_meter| PixelDimensions {
        xppu: per_meter,
        yppu: per_meter,
        unit: Unit::Meter,
    }));
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(rgb).ok()?;
    writer.finish().ok()?;
    Some(file)
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(colour.0, colour.1, colour.2, 255);
    paint
}

fn draw_path(
    sheet: &mut Pixmap,
    outline: &[Segment],
    fill: Option<Colour>,
    stroke: Option<Stroke>,
    transform: Transform,
) {
    let Some(path) = path_of(outline) else { return };
    if let Some(colour) = fill {
        sheet.fill_path(&path, &paint(colour), FillRule::Winding, transform, None);
    }
    if let Some(stroke) = stroke {
        let dashes = stroke.dashes_pt.iter().map(|length| *length as f32).collect();
        let drawn = tiny_skia::Stroke {
            width: stroke.width_pt as f32,
            line_join: tiny_skia::LineJoin::Round,
            dash: StrokeDash::new(dashes, 0.0),
            ..tiny_skia::Stroke::default()
        };
        sheet.stroke_path(&path, &paint(stroke.colour), &drawn, transform, None);
    }
}

fn path_of(outline: &[Segment]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for segment in outline {
        match *segment {
            Segment::Move((x, y)) => path.move_to(x as f32, y as f32),
            Segment::Line((x, y)) => path.line_to(x as f32, y as f32),
            Segment::Curve((x1, y1), (x2, y2), (x, y)) => {
                path.cubic_to(x1 as f32, y1 as f32, x2 as f32, y2 as f32, x as f32, y as f32);
            }
            Segment::Close => path.close(),
        }
    }
    path.finish()
}

fn draw_text(sheet: &mut Pixmap, text: &Text, transform: Transform) {
    let (x, y) = text.begin();
    let turned = if text.is_upright { Transform::from_rotate(-90.0) } else { Transform::identity() };
    let place = transform.pre_translate(x as f32, y as f32).pre_concat(turned);
    let scale = (text.size_pt / f64::from(face().units_per_em())) as f32;
    let mut along = 0.0;
    for character in text.text.chars() {
        let (id, advance) = glyph(character);
        let mut outline = GlyphOutline(PathBuilder::new());
        if face().outline_glyph(id, &mut outline).is_some()
            && let Some(path) = outline.0.finish()
        {
            let at = place.pre_translate(along as f32, 0.0).pre_scale(scale, -scale);
            sheet.fill_path(&path, &paint(text.colour), FillRule::Winding, at, None);
        }
        along += advance * text.size_pt;
    }
}

/// From the font to the rasteriser.
struct GlyphOutline(PathBuilder);

impl OutlineBuilder for GlyphOutline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}

fn draw_image(sheet: &mut Pixmap, image: &Image, transform: Transform) {
    let Some(mut pixels) = Pixmap::new(image.columns as u32, image.rows() as u32) else { return };
    for (to, from) in pixels.pixels_mut().iter_mut().zip(&image.pixels) {
        if let Some(opaque) = PremultipliedColorU8::from_rgba(from.0, from.1, from.2, 255) {
            *to = opaque;
        }
    }
    let place = image.place;
    let scale = (place.width() / image.columns as f64, place.height() / image.rows() as f64);
    let at = transform.pre_translate(place.left as f32, place.top as f32).pre_scale(scale.0 as f32, scale.1 as f32);
    let nearest = PixmapPaint { quality: FilterQuality::Nearest, ..PixmapPaint::default() };
    sheet.draw_pixmap(0, 0, pixels.as_ref(), &nearest, at, None);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::super::Rect;
    use super::*;

    #[test]
    fn a_file_has_300_dots_per_inch_and_what_was_drawn() {
        let mut scene = Scene::new(85.0, 60.0);
        scene.rect(Rect { left: 0.0, top: 0.0, right: 36.0, bottom: 36.0 }, Colour(200, 10, 20));
        let file = scene.png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let info = reader.info();
        assert_eq!((info.width, info.height), (1004, 709));
        assert_eq!(info.pixel_dims.unwrap().xppu, 11811);
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let pixel = |x: usize, y: usize| &pixels[3 * (y * 1004 + x)..][..3];
        assert_eq!((pixel(70, 70), pixel(200, 70)), (&[200, 10, 20][..], &[255, 255, 255][..]));
    }
}
