import { describeValue } from './describe-value.ts'
import type { Report } from './finding.ts'
import { isToolVersion, parseToolId, type ToolId } from './tool-id.ts'

const NAME = /^[A-Za-z0-9_-]{1,64}$/
const NAME_RULE = 'Write 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`.'

/** OTC-23, T-09. */
export function checkId(id: unknown, report: Report): ToolId | undefined {
  const parts = typeof id === 'string' ? parseToolId(id) : undefined
  if (parts !== undefined) return parts
  report('id', `Is ${describeValue(id)}.`, `Write \`Toolkit.Name@x.y.z\`, for example "${suggestId(id)}".`)
  return undefined
}

function suggestId(id: unknown): string {
  const text = typeof id === 'string' ? id : ''
  const [, base] = /^([A-Za-z0-9_]{1,64}\.[A-Za-z0-9_]{1,64})(?:@|$)/.exec(text) ?? []
  const [, version] = /@v?([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})/.exec(text) ?? []
  return `${base ?? 'Calculator.Add'}@${version ?? '1.0.0'}`
}

/** OTC-25; `name` is what models call. */
export function checkName(name: unknown, report: Report): string | undefined {
  if (typeof name === 'string' && NAME.test(name)) return name
  report('name', `Is ${describeValue(name)}.`, NAME_RULE)
  return undefined
}

/** `Toolkit_Name`, as long as it fits (OTC-25). */
export function defaultName({ toolkit, name }: ToolId, report: Report): string | undefined {
  const made = `${toolkit}_${name}`
  if (NAME.test(made)) return made
  report(
    'name',
    `The name made from the id has ${made.length} characters, and 64 is the most.`,
    `Add a shorter one: \`name: '${made.slice(0, 64)}'\`.`,
  )
  return undefined
}

/** OTC-26. */
export function checkDescription(description: unknown, report: Report): string | undefined {
  if (isText(description)) return description
  report(
    'description',
    `Is ${describeValue(description)}.`,
    'Say in a sentence what the tool does, for people and for models.',
  )
  return undefined
}

export function checkTitle(title: unknown, report: Report): string | undefined {
  if (title === undefined || isText(title)) return title
  report('title', `Is ${describeValue(title)}.`, 'Write a short name for people, or leave it out.')
  return undefined
}

/** OTC-28, and T-11: the id says the same version. */
export function checkVersion(version: unknown, parts: ToolId | undefined, report: Report): void {
  if (typeof version !== 'string' || !isToolVersion(version)) {
    report(
      'version',
      `Is ${describeValue(version)}.`,
      `Write exactly three integers: "${parts?.version ?? '1.0.0'}".`,
    )
  } else if (parts !== undefined && version !== parts.version) {
    report(
      'version',
      `Is "${version}", but the id says "${parts.version}".`,
      `Write "${parts.version}", or change the id.`,
    )
  }
}

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '' && value.isWellFormed()
}
