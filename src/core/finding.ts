/** One thing wrong with a definition: where, what, and what to write instead. */
export interface Finding {
  /** The id as written, or a placeholder when there is none. */
  readonly toolId: string
  readonly file?: string
  /** Member of the definition, with a JSON Pointer where it goes deeper: `input/properties/a`. */
  readonly where: string
  readonly problem: string
  readonly fix: string
}

/** How a check says what it found; checks go on after a finding, so that all of them are seen at once. */
export type Report = (where: string, problem: string, fix: string) => void

/** Thrown at load: lists every finding of every tool. */
export class DefinitionError extends Error {
  override readonly name = 'DefinitionError'
  readonly findings: readonly Finding[]

  constructor(findings: readonly Finding[]) {
    super(describeFindings(findings))
    this.findings = findings
  }
}

/** Findings as text for a person, grouped by file and tool. */
function describeFindings(findings: readonly Finding[]): string {
  const groups = new Map<string, string[]>()
  for (const { file, toolId, where, problem, fix } of findings) {
    const heading = file === undefined ? toolId : `${file}: ${toolId}`
    const lines = groups.get(heading) ?? []
    lines.push(`  ${where}: ${problem}`, `    → ${fix}`)
    groups.set(heading, lines)
  }
  const count = findings.length === 1 ? '1 problem' : `${findings.length} problems`
  const blocks = [...groups].map(([heading, lines]) => [heading, ...lines].join('\n'))
  return [`${count} in the tool definitions:`, ...blocks].join('\n\n')
}
