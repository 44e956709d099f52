/**
 * How much of a JSON Schema keyword is left in OpenTool (OTS-82): `annotated` moved into the description,
 * `dropped` not expressible, so the result accepts more; `approximated` the result accepts different values;
 * `unrepresentable` there is no result.
 */
export type LossSeverity = 'annotated' | 'dropped' | 'approximated' | 'unrepresentable'

export interface SchemaLoss {
  /** JSON Pointer into the JSON Schema, through `$ref` into its definitions. */
  readonly pointer: string
  readonly keyword: string
  readonly severity: LossSeverity
}

/** `strict` refuses what would not mean the same, `lossy` makes the best of it (OTS-83). */
export type ConversionMode = 'strict' | 'lossy'

const MOST_SHOWN = 20

/** The schema cannot be converted in this mode; carries every loss, the small ones too. */
export class SchemaConversionError extends Error {
  override readonly name = 'SchemaConversionError'
  readonly rule = 'OTS-83'
  readonly losses: readonly SchemaLoss[]

  constructor(losses: readonly SchemaLoss[], mode: ConversionMode) {
    const fatal = losses.filter(({ severity }) => isFatal(severity, mode))
    const lines = fatal
      .slice(0, MOST_SHOWN)
      .map(({ pointer, keyword, severity }) => `  ${pointer || '(schema)'}: \`${keyword}\` is ${severity}`)
    const more = fatal.length > MOST_SHOWN ? [`  and ${fatal.length - MOST_SHOWN} more`] : []
    super(['The JSON Schema cannot be said in OpenTool:', ...lines, ...more].join('\n'))
    this.losses = losses
  }
}

export function isFatal(severity: LossSeverity, mode: ConversionMode): boolean {
  return severity === 'unrepresentable' || (severity === 'approximated' && mode === 'strict')
}

/** Each loss once: a definition that is used twice is lost in one place. */
export function distinctLosses(losses: readonly SchemaLoss[]): readonly SchemaLoss[] {
  const seen = new Map<string, SchemaLoss>()
  for (const loss of losses) seen.set(`${loss.severity} ${loss.keyword} ${loss.pointer}`, loss)
  return [...seen.values()]
}
