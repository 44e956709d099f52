/** As a shell would cut it, quotes and all; nothing of it is run by a shell. The console cuts the same way what it shows. */
export function wordsOf(text: string): readonly string[] {
  const found = text.matchAll(/(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|((?:[^\s"'\\]|\\.)+))+/gs)
  return [...found].map(([word]) =>
    word.replace(
      /"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/gs,
      (_whole, double: string | undefined, single: string | undefined, escaped: string | undefined) =>
        double?.replace(/\\(["\\$`])/g, '$1') ?? single ?? escaped ?? '',
    ),
  )
}
