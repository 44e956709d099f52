/** Splits a command line with quotes like a shell, but does not run it. The console splits displayed commands with it. */
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
