import { execFile } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { FakeIo } from '../cli/fake-io.ts'
import { type MarkdownBlock, readBlocks } from './markdown-blocks.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const LIMIT_MS = 60_000
const execute = promisify(execFile)

const FLAGS = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
const RECIPES = readdirSync(join(ROOT, 'docs/recipes')).map((name) => `docs/recipes/${name}`)

/** A project with the sources instead of the built package, because a build takes longer than all programs together. */
function makeProject(): string {
  const project = mkdtempSync(join(tmpdir(), 'collet-guides-'))
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  mkdirSync(join(project, 'node_modules'))
  symlinkSync(join(ROOT, 'node_modules/zod'), join(project, 'node_modules/zod'))
  symlinkSync(ROOT, join(project, 'node_modules/collet'))
  return project
}

/** Pages that consist of programs: each prints the output shown in its comments or below it. */
const PROGRAMS = ['docs/tools.md', 'docs/prompts-and-resources.md', ...RECIPES].flatMap((document) => {
  const blocks = readBlocks(document)
  if (blocks.some(({ language }) => language === 'sh')) return []
  return blocks.flatMap(({ language, text, line }, index) =>
    language === 'ts'
      ? [
          {
            place: `${document}:${line}`,
            file: `${document.replaceAll('/', '-')}-${line}.ts`,
            text,
            shown: shownBy(text) ?? linesOf(blocks[index + 1]),
          },
        ]
      : [],
  )
})

function shownBy(text: string): readonly string[] | undefined {
  const shown = [...text.matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)].map(([, printed = '']) => printed)
  return shown.length === 0 ? undefined : shown
}

function linesOf(block: MarkdownBlock | undefined): readonly string[] {
  return block?.language === 'text' ? block.text.trimEnd().split('\n') : []
}

describe('the programs of the guides', () => {
  let project = ''
  let printed: readonly (readonly string[])[] = []
  beforeAll(async () => {
    project = makeProject()
    for (const { file, text } of PROGRAMS) writeFileSync(join(project, file), text)
    const runner = join(import.meta.dirname, 'run-blocks.mjs')
    const files = PROGRAMS.map(({ file }) => join(project, file))
    const { stdout } = await execute(process.execPath, [...FLAGS, runner, ...files], { cwd: project })
    printed = JSON.parse(stdout)
  }, LIMIT_MS)
  afterAll(() => rmSync(project, { recursive: true }))

  it.each(PROGRAMS.map(({ place, shown }, index) => [place, shown, index] as const))(
    '%s prints the shown output',
    (_place, shown, index) => {
      expect(shown.length).toBeGreaterThan(0)
      expect(printed[index]).toEqual(shown)
    },
  )
})

/** Runs recipes with commands from top to bottom: saves files, runs commands, and compares their output. */
describe('the recipes with commands', () => {
  const withCommands = RECIPES.filter((file) => readBlocks(file).some(({ language }) => language === 'sh'))

  it('exist', () => {
    expect(withCommands.length).toBeGreaterThan(2)
    expect(RECIPES.length).toBeGreaterThan(10)
  })

  it.each(withCommands)(
    '%s works as printed',
    async (file) => {
      const project = makeProject()
      try {
        await play(file, project)
      } finally {
        rmSync(project, { recursive: true })
      }
    },
    LIMIT_MS,
  )
})

async function play(document: string, project: string): Promise<void> {
  const blocks = readBlocks(document)
  let printed = ''
  for (const block of blocks) {
    if (block.language === 'sh') {
      const before = printed
      printed = ''
      for (const words of commandsOf(block.text.replace('RECORD', firstWord(before))))
        printed += await runCommand(words, project)
    } else if (block.language === 'text') {
      expect(printed.trimEnd()).toBe(block.text.trimEnd())
    } else {
      const path = join(project, fileOf(document, block))
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, block.text)
    }
  }
}

/** A program has its name in a comment; JSON has no comments, so the sentence before it names the file. */
function fileOf(document: string, { text, line }: MarkdownBlock): string {
  const own = /^\/\/ (\S+)\n/.exec(text)?.[1]
  const above = readFileSync(join(ROOT, document), 'utf8').split('\n').slice(0, line).join('\n')
  const name =
    own ??
    above
      .match(/`([\w.]+\.json)`/g)
      ?.at(-1)
      ?.replaceAll('`', '')
  if (name === undefined) throw new Error(`${document}:${line} has no name`)
  return name
}

function commandsOf(text: string): readonly (readonly string[])[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? ''))
}

/** Of the first row below the heading of a list. */
function firstWord(list: string): string {
  return /\n(\S+)/.exec(list)?.[1] ?? ''
}

async function runCommand([program, ...args]: readonly string[], project: string): Promise<string> {
  const [name = '', command = '', ...options] = args
  if (program === 'npx' && name === 'node') {
    const { stdout } = await execute(process.execPath, [...FLAGS, command, ...options], { cwd: project })
    return stdout
  }
  expect([program, name]).toEqual(['npx', 'collet'])
  const path = `${join(import.meta.dirname, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`
  const environment = readEnvironment({ PATH: path, HOME: project })
  const io = new FakeIo(REAL_SERVICES, { workingFolder: project, environment })
  const ended = io.run(command, ...options, ...(command === 'serve' ? ['--port', '0'] : []))
  if (command === 'serve') {
    await expect.poll(() => io.stdout + io.stderr, { timeout: LIMIT_MS }).toMatch(/http:\/\/127\.0\.0\.1:\d+/)
    io.stop()
  }
  const code = await ended
  expect([code, code === 0 ? '' : io.stderr]).toEqual([0, ''])
  expect(io.stderr).not.toMatch(/did you mean|nothing has/i)
  return io.stdout
}
