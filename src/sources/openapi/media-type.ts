/** How a body travels. */
export type BodyForm = 'json' | 'urlencoded' | 'multipart' | 'text' | 'binary'

const TEXT =
  /^(text\/.+|application\/(xml|javascript|ecmascript|yaml|x-yaml|toml|graphql|sql|x-ndjson|ndjson|jsonl|json-seq|x-www-form-urlencoded)|.+\+(xml|yaml))$/

/** Without parameters, in small letters. */
export function essenceOf(mediaType: string): string {
  return (mediaType.split(';')[0] ?? '').trim().toLowerCase()
}

export function isJson(mediaType: string): boolean {
  const essence = essenceOf(mediaType)
  return essence === 'application/json' || essence === 'text/json' || essence.endsWith('+json')
}

export function isTextual(mediaType: string): boolean {
  return isJson(mediaType) || TEXT.test(essenceOf(mediaType))
}

export function formOf(mediaType: string): BodyForm {
  const essence = essenceOf(mediaType)
  if (isJson(essence) || essence === '*/*' || essence === 'application/*') return 'json'
  if (essence === 'application/x-www-form-urlencoded') return 'urlencoded'
  if (essence.startsWith('multipart/')) return 'multipart'
  return isTextual(essence) ? 'text' : 'binary'
}

const PREFERENCE = [
  'json',
  'multipart',
  'urlencoded',
  'text',
  'binary',
] as const satisfies readonly BodyForm[]

/** The one that says most about its parts; of equals the first. */
export function preferred<Entry>(
  content: readonly Entry[],
  mediaTypeOf: (entry: Entry) => string,
): Entry | undefined {
  for (const form of PREFERENCE) {
    const found = content.find((entry) => formOf(mediaTypeOf(entry)) === form)
    if (found !== undefined) return found
  }
  return undefined
}

/** What is sent for a media type that stands for several. */
export function concrete(mediaType: string): string {
  return mediaType.includes('*') ? 'application/json' : mediaType
}
