/** Text from token ids, one token at a time. */

type Decode = (ids: bigint[]) => string;

/** Bytes of a character that is not complete decode to this. */
const INCOMPLETE = "\uFFFD";

/** What each token adds to the text. Ids are decoded together, because tokens of the same word depend on each other. */
export class TextStream {
  readonly #decode: Decode;
  #ids: bigint[] = [];
  #shown = 0;

  constructor(decode: Decode) {
    this.#decode = decode;
  }

  /** Nothing for a token that ends inside a character: the token that completes it gives the whole character. */
  add(id: bigint): string {
    this.#ids.push(id);
    const text = this.#decode(this.#ids);
    if (text.endsWith(INCOMPLETE)) {
      return "";
    }
    const added = text.slice(this.#shown);
    this.#shown = text.length;
    if (text.endsWith("\n")) {
      this.#ids = [];
      this.#shown = 0;
    }
    return added;
  }
}
