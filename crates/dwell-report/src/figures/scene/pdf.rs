//! A scene as PDF: vectors, and text in a font that the file holds, so that it can be searched and copied.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::{CidFontType, FontFlags, LineJoinStyle, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect as PdfRect, Ref, Str};

use super::font::{FAMILY, TTF, face, glyph};
use super::{Colour, Image, Scene, Segment, Shape, Stroke, Text};

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const FONT: Ref = Ref::new(5);
const CID_FONT: Ref = Ref::new(6);
const DESCRIPTOR: Ref = Ref::new(7);
const FONT_FILE: Ref = Ref::new(8);
const CMAP: Ref = Ref::new(9);
/// Images follow.
const FIRST_IMAGE: i32 = 10;

const FONT_NAME: Name<'static> = Name(b"F");
const IDENTITY: SystemInfo<'static> = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

impl Scene {
    /// The scene as a PDF file of one page.
    pub(in crate::figures) fn pdf(&self) -> Vec<u8> {
        let area = self.area();
        let mut page = PageContent { content: Content::new(), height_pt: area.bottom, images: Vec::new() };
        page.content.set_line_join(LineJoinStyle::RoundJoin);
        self.shapes.iter().for_each(|shape| page.draw(shape));
        let mut pdf = Pdf::new();
        pdf.catalog(CATALOG).pages(PAGES);
        pdf.pages(PAGES).kids([PAGE]).count(1);
        let mut sheet = pdf.page(PAGE);
        sheet.parent(PAGES).media_box(PdfRect::new(0.0, 0.0, area.right as f32, area.bottom as f32)).contents(CONTENT);
        let mut resources = sheet.resources();
        resources.fonts().pair(FONT_NAME, FONT);
        let mut objects = resources.x_objects();
        for place in 0..page.images.len() {
            objects.pair(Name(image_name(place).as_bytes()), image_ref(place));
        }
        objects.finish();
        resources.finish();
        sheet.finish();
        for (place, image) in page.images.iter().enumerate() {
            write_image(&mut pdf, image_ref(place), image);
        }
        let content = deflated(&page.content.finish());
        pdf.stream(CONTENT, &content).filter(Filter::FlateDecode);
        write_font(&mut pdf, &self.used_glyphs());
        pdf.finish()
    }

    /// Glyphs of all texts, with the characters they stand for and how far the next one is.
    fn used_glyphs(&self) -> BTreeMap<u16, (char, f64)> {
        let texts =
            self.shapes.iter().filter_map(|shape| if let Shape::Text(text) = shape { Some(text) } else { None });
        let characters = texts.flat_map(|text| text.text.chars());
        characters.map(|character| (glyph(character).0.0, (character, glyph(character).1))).collect()
    }
}

fn image_name(place: usize) -> String {
    format!("I{place}")
}

fn image_ref(place: usize) -> Ref {
    Ref::new(FIRST_IMAGE + place as i32)
}

/// What is drawn on the page. The origin of PDF is below, that of scenes above.
struct PageContent<'a> {
    content: Content,
    height_pt: f64,
    images: Vec<&'a Image>,
}

impl<'a> PageContent<'a> {
    fn draw(&mut self, shape: &'a Shape) {
        match shape {
            Shape::Path { outline, fill, stroke } => {
                if let Some(colour) = fill {
                    let [red, green, blue] = channels(*colour);
                    // No colour may be set while an outline is drawn.
                    self.content.set_fill_rgb(red, green, blue);
                    self.trace(outline);
                    self.content.fill_nonzero();
                }
                if let Some(stroke) = stroke {
                    self.set_stroke(stroke);
                    self.trace(outline);
                    self.content.stroke();
                }
            }
            Shape::Text(text) => self.write(text),
            Shape::Image(image) => self.show(image),
        }
    }

    fn y(&self, y: f64) -> f32 {
        (self.height_pt - y) as f32
    }

    fn trace(&mut self, outline: &[Segment]) {
        for segment in outline {
            match *segment {
                Segment::Move((x, y)) => self.content.move_to(x as f32, self.y(y)),
                Segment::Line((x, y)) => self.content.line_to(x as f32, self.y(y)),
                Segment::Curve((x1, y1), (x2, y2), (x, y)) => {
                    let (y1, y2, y) = (self.y(y1), self.y(y2), self.y(y));
                    self.content.cubic_to(x1 as f32, y1, x2 as f32, y2, x as f32, y)
                }
                Segment::Close => self.content.close_path(),
            };
        }
    }

    fn set_stroke(&mut self, stroke: &Stroke) {
        let [red, green, blue] = channels(stroke.colour);
        self.content.set_stroke_rgb(red, green, blue);
        self.content.set_line_width(stroke.width_pt as f32);
        self.content.set_dash_pattern(stroke.dashes_pt.iter().map(|length| *length as f32), 0.0);
    }

    fn write(&mut self, text: &Text) {
        let glyphs: Vec<u8> = text.text.chars().flat_map(|character| glyph(character).0.0.to_be_bytes()).collect();
        let (x, y) = text.begin();
        let turn = if text.is_upright { [0.0, 1.0, -1.0, 0.0] } else { [1.0, 0.0, 0.0, 1.0] };
        let [red, green, blue] = channels(text.colour);
        let y = self.y(y);
        self.content
            .set_fill_rgb(red, green, blue)
            .begin_text()
            .set_font(FONT_NAME, text.size_pt as f32)
            .set_text_matrix([turn[0], turn[1], turn[2], turn[3], x as f32, y])
            .show(Str(&glyphs))
            .end_text();
    }

    fn show(&mut self, image: &'a Image) {
        let place = image.place;
        let bottom = self.y(place.bottom);
        self.content
            .save_state()
            .transform([place.width() as f32, 0.0, 0.0, place.height() as f32, place.left as f32, bottom])
            .x_object(Name(image_name(self.images.len()).as_bytes()))
            .restore_state();
        self.images.push(image);
    }
}

fn channels(colour: Colour) -> [f32; 3] {
    [colour.0, colour.1, colour.2].map(|channel| f32::from(channel) / 255.0)
}

/// Writing to memory does not fail.
fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn write_image(pdf: &mut Pdf, id: Ref, image: &Image) {
    let samples = deflated(&image.rgb());
    let mut object = pdf.image_xobject(id, &samples);
    object.filter(Filter::FlateDecode);
    object.width(image.columns as i32).height(image.rows() as i32);
    object.color_space().device_rgb();
    object.bits_per_component(8).interpolate(false);
}

/// The font, as glyphs by number with the characters that they stand for.
fn write_font(pdf: &mut Pdf, glyphs: &BTreeMap<u16, (char, f64)>) {
    let face = face();
    // A tag of six letters says that the font is a subset.
    let name = format!("DWELLF+{FAMILY}-Regular");
    let name = Name(name.as_bytes());
    pdf.type0_font(FONT)
        .base_font(name)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(CID_FONT)
        .to_unicode(CMAP);
    let mut font = pdf.cid_font(CID_FONT);
    font.subtype(CidFontType::Type2).base_font(name).system_info(IDENTITY).font_descriptor(DESCRIPTOR);
    font.default_width(0.0).cid_to_gid_map_predefined(Name(b"Identity"));
    let mut widths = font.widths();
    for (&id, &(_, advance)) in glyphs {
        widths.consecutive(id, [(advance * 1000.0) as f32]);
    }
    widths.finish();
    font.finish();
    let thousandths = |units: i16| f32::from(units) * 1000.0 / f32::from(face.units_per_em());
    let bounds = face.global_bounding_box();
    pdf.font_descriptor(DESCRIPTOR)
        .name(name)
        .flags(FontFlags::NON_SYMBOLIC)
        .bbox(PdfRect::new(
            thousandths(bounds.x_min),
            thousandths(bounds.y_min),
            thousandths(bounds.x_max),
            thousandths(bounds.y_max),
        ))
        .italic_angle(0.0)
        .ascent(thousandths(face.ascender()))
        .descent(thousandths(face.descender()))
        .cap_height(thousandths(face.capital_height().unwrap_or_default()))
        .stem_v(80.0)
        .font_file2(FONT_FILE);
    let file = deflated(TTF);
    let mut stream = pdf.stream(FONT_FILE, &file);
    stream.filter(Filter::FlateDecode).pair(Name(b"Length1"), TTF.len() as i32);
    stream.finish();
    let mut cmap = UnicodeCmap::new(Name(b"Dwell"), IDENTITY);
    for (&id, &(character, _)) in glyphs {
        cmap.pair(id, character);
    }
    pdf.cmap(CMAP, &cmap.finish());
}

#[cfg(test)]
mod tests {
    use super::super::{Align, Rect};
    use super::*;

    #[test]
    fn a_file_has_its_size_its_font_and_its_images() {
        let mut scene = Scene::new(85.0, 60.0);
        scene.label((10.0, 10.0), Align::Begin, 7.0, Colour(0, 0, 0), "KV");
        let place = Rect { left: 0.0, top: 0.0, right: 20.0, bottom: 20.0 };
        scene.add(Shape::Image(Image { place, columns: 2, pixels: vec![Colour(1, 2, 3); 4] }));
        let text = String::from_utf8_lossy(&scene.pdf()).into_owned();
        assert!(text.starts_with("%PDF-1."), "{text}");
        assert!(text.contains("/MediaBox [0 0 240.94489 170.07874]"), "{text}");
        assert!(text.contains("/FontName /DWELLF+Inter-Regular") && text.contains("/FontFile2 8 0 R"), "{text}");
        assert!(text.contains("/Subtype /Image") && text.contains("/Width 2"), "{text}");
    }
}
