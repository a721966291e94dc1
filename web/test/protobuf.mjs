// Writes protocol buffers: as much of the format as an ONNX model needs.

export function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const low = Number(rest & 0x7fn);
    if (rest < 0x80n) {
      return Buffer.from([...bytes, low]);
    }
    bytes.push(low | 0x80);
  }
}

export const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);

export function bytes(field, value) {
  const content = Buffer.isBuffer(value) ? value : Buffer.from(value);
  return Buffer.concat([varint((field << 3) | 2), varint(content.length), content]);
}

export const message = (field, ...parts) => bytes(field, Buffer.concat(parts));
