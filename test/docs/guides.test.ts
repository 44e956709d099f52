import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readBlocks } from './markdown-blocks.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const LIMIT_MS = 60_000
const run = promisify(execFile)

const GUIDES = [
  'docs/tools.md',
  ...readdirSync(join(ROOT, 'docs/recipes'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/recipes/${name}`),
]

/** Blocks that print, and say what: each is a complete program. */
const PROGRAMS = GUIDES.flatMap((document) =>
  readBlocks(document)
    .filter(({ language, text }) => language === 'ts' && text.includes('// → '))
    .map(({ text, line }) => ({
      place: `${document}:${line}`,
      file: `${document.replaceAll('/', '-')}-${line}.ts`,
      text,
      shown: [...text.matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)].map(([, printed]) => printed),
    })),
)

/** A project as its author has it, but with the sources in place of the built package: a build takes longer than all programs together. */
function makeProject(): string {
  const project = mkdtempSync(join(tmpdir(), 'collet-guides-'))
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  for (const name of ['zod', 'express', 'ai'].filter((name) =>
    readdirSync(join(ROOT, 'node_modules')).includes(name),
  ))
    link(join(ROOT, 'node_modules', name), join(project, 'node_modules', name))
  link(ROOT, join(project, 'node_modules/collet'))
  return project
}

function link(target: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, path)
}

describe('the programs of the guides', () => {
  let project = ''
  let printed: readonly (readonly string[])[] = []
  beforeAll(async () => {
    project = makeProject()
    for (const { file, text } of PROGRAMS) writeFileSync(join(project, file), text)
    const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
    const runner = join(import.meta.dirname, 'run-blocks.mjs')
    const files = PROGRAMS.map(({ file }) => join(project, file))
    const { stdout } = await run(process.execPath, [...flags, runner, ...files], { cwd: project })
    printed = JSON.parse(stdout)
  }, LIMIT_MS)
  afterAll(() => rmSync(project, { recursive: true }))

  it.each(PROGRAMS.map(({ place, shown }, index) => [place, shown, index] as const))(
    '%s prints what is shown',
    (_place, shown, index) => {
      expect(printed[index]).toEqual(shown)
    },
  )
})
