import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, expectTypeOf, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { workflow } from '#kernel/tool/define'
import { prepareTools, requireTools } from '#kernel/tool/prepare-tools'
import { prompt } from './prompt.ts'
import { resource } from './resource.ts'
import { skill } from './skill.ts'

const city = z.string().describe('Name of the city.')

function findingsOf(...definitions: readonly unknown[]) {
  const prepared = prepareTools(definitions.map((definition) => ({ definition })))
  return prepared.ok ? [] : prepared.findings.map(({ where, problem }) => `${where}: ${problem}`)
}

function entryOf(definition: unknown) {
  const [tool] = requireTools([definition])
  if (tool?.entry === undefined) throw new Error('no entry was made')
  return { tool, entry: tool.entry }
}

describe('prompt()', () => {
  const summary = prompt({
    id: 'Docs.Summary@1.0.0',
    title: 'Summary',
    description: 'Sums up a city.',
    input: { city, style: z.enum(['short', 'long']).optional().describe('How long.') },
    complete: {
      city: (value, { style }) => ['Oslo', 'Osaka', style ?? ''].filter((name) => name.startsWith(value)),
    },
    policy: { scopes: ['docs:read'], timeoutMs: 5_000 },
    run: (args) => {
      expectTypeOf(args).toEqualTypeOf<{ city: string; style?: 'short' | 'long' | undefined }>()
      return `Sum up ${args.city}.`
    },
  })

  it('MCP-130: becomes an entry that is listed with its arguments', () => {
    const { tool, entry } = entryOf(summary)
    expect(entry).toMatchObject({
      kind: 'prompt',
      name: 'Docs_Summary',
      definition: {
        title: 'Summary',
        description: 'Sums up a city.',
        arguments: [
          { name: 'city', description: 'Name of the city.', required: true },
          { name: 'style', description: 'How long.', required: false },
        ],
      },
    })
    expect(tool.policy).toMatchObject({ safetyTier: 'read', scopes: ['docs:read'], timeoutMs: 5_000 })
  })

  it('MCP-133: completes arguments by its function, or by the values of their schema', async () => {
    const { entry } = entryOf(summary)
    expect(await entry.complete?.('city', 'Os', { style: 'Ost' })).toEqual(['Oslo', 'Osaka', 'Ost'])
    expect(await entry.complete?.('style', 'S', {})).toEqual(['short'])
    expect(await entry.complete?.('other', '', {})).toBeUndefined()
  })

  it('MCP-131: reports every problem with its position', () => {
    const broken = {
      ...summary,
      input: { days: z.number().describe('How many.') },
      complete: { city: 3 },
      policy: { approval: 'always' },
      icons: [{ src: 'javascript:alert(1)' }],
      run: undefined,
      colour: 'red',
    }
    expect(findingsOf(broken)).toEqual([
      'colour: "colour" is not a known member.',
      'run: Is missing.',
      'policy/approval: "approval" is not a known member.',
      'input/properties/days: Is not a string. Clients send every argument of a prompt as a string.',
      'icons: Has an icon without a usable address.',
      'complete/city: Is not an argument.',
    ])
  })

  it('MCP-130: another function, or another text in its list entry, is another definition', () => {
    const base = { id: 'Docs.One@1.0.0', description: 'One.', run: () => 'a' } as const
    const hashes = [
      prompt(base),
      prompt({ ...base, run: () => 'b' }),
      prompt({ ...base, icons: [{ src: 'https://example.com/a.png' }] }),
    ].map((definition) => entryOf(definition).tool.definitionHash)
    expect(new Set(hashes).size).toBe(3)
  })
})

describe('resource()', () => {
  const page = resource({
    id: 'Docs.Page@1.0.0',
    uriTemplate: 'docs://{page}{?lang}',
    description: 'A page.',
    mimeType: 'text/markdown',
    annotations: { audience: ['user'] },
    complete: { page: () => ['start', 'end'] },
    read: ({ params }) => {
      expectTypeOf(params).toEqualTypeOf<{ readonly page: string; readonly lang?: string }>()
      return `# ${params.page}`
    },
  })

  it('MCP-132: one address makes a resource, and a template makes a template', async () => {
    const guide = resource({
      id: 'Docs.Guide@1.0.0',
      uri: 'docs://guide',
      description: 'How to begin.',
      read: () => 'Begin.',
    })
    expect(entryOf(guide).entry).toMatchObject({
      kind: 'resource',
      definition: { uri: 'docs://guide', name: 'Docs_Guide', description: 'How to begin.' },
    })
    const { entry } = entryOf(page)
    expect(entry).toMatchObject({
      kind: 'template',
      definition: {
        uriTemplate: 'docs://{page}{?lang}',
        mimeType: 'text/markdown',
        annotations: { audience: ['user'] },
      },
    })
    expect(entry.hasAddress?.('docs://start?lang=en')).toBe(true)
    expect(entry.hasAddress?.('docs://start/more')).toBe(false)
    expect(await entry.complete?.('page', '', {})).toEqual(['start', 'end'])
  })

  it('MCP-132: an address belongs to one resource, in all its versions', () => {
    const at = (id: `${string}.${string}@${string}`, uri: string) =>
      resource({ id, uri, description: 'One.', read: () => '' })
    expect(findingsOf(at('Docs.A@1.0.0', 'a://b'), at('Docs.A@1.1.0', 'a://b'))).toEqual([])
    expect(findingsOf(at('Docs.A@1.0.0', 'a://b'), at('Docs.B@1.0.0', 'a://b'))).toEqual([
      'uri: "a://b" already belongs to "Docs.A@1.0.0".',
    ])
  })

  it('MCP-130: a workflow cannot call an entry', () => {
    const reads = workflow({
      id: 'Docs.Flow@1.0.0',
      description: 'Reads a page.',
      uses: [page],
      input: {},
      output: null,
      run: () => null,
    })
    expect(findingsOf(page, reads)).toEqual([
      'uses: "Docs.Page@1.0.0" is a template, which no workflow can call.',
    ])
  })

  it('MCP-132: reports every problem with its position', () => {
    const base = { id: 'Docs.Bad@1.0.0', description: 'Bad.', read: () => '' }
    const mark = (changes: object) => ({
      ...page,
      uriTemplate: undefined,
      complete: undefined,
      ...base,
      ...changes,
    })
    expect(findingsOf(mark({}))).toEqual(['uri: Is missing.'])
    expect(findingsOf(mark({ uri: 'a://b', uriTemplate: 'a://{b}' }))).toEqual([
      'uri: Is set together with `uriTemplate`.',
    ])
    expect(findingsOf(mark({ uri: 'no address' }))).toEqual([
      'uri: Is "no address", which is not an address.',
    ])
    expect(findingsOf(mark({ uri: 'a://b', mimeType: 'text', read: 3, annotations: [] }))).toEqual([
      'read: Is 3.',
      'mimeType: Is "text".',
      'annotations: Is a list.',
    ])
    expect(findingsOf(mark({ uriTemplate: 'a://{b*}' }))).toEqual([
      'uriTemplate: Has "{b*}", which is not supported.',
    ])
  })
})

describe('skill()', () => {
  function folderOf(files: Readonly<Record<string, string>>): string {
    const folder = mkdtempSync(join(tmpdir(), 'collet-skill-'))
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
    onTestFinished(() => rmSync(folder, { recursive: true }))
    return folder
  }
  const SKILL = '---\nname: pdf\ndescription: Reads forms.\nmetadata:\n  level: "1"\n---\n# How\n'

  it('MCP-207: lists every file of its folder with its digest', () => {
    const { tool, entry } = entryOf(
      skill({ id: 'Docs.Pdf@1.0.0', folder: folderOf({ 'SKILL.md': SKILL, 'a b.md': 'A' }) }),
    )
    expect(tool).toMatchObject({ description: 'Reads forms.', policy: { safetyTier: 'read' } })
    expect(entry).toMatchObject({
      kind: 'skill',
      definition: {
        uri: 'skill://pdf/SKILL.md',
        frontmatter: { name: 'pdf', description: 'Reads forms.', metadata: { level: '1' } },
        resources: [
          { uri: 'skill://pdf/SKILL.md', size: Buffer.byteLength(SKILL) },
          {
            uri: 'skill://pdf/a%20b.md',
            size: 1,
            digest: 'sha256:559aead08264d5795d3909718cdd05abd49572e84fe55590eef31a88a08fdffd',
          },
        ],
      },
    })
  })

  it.each([
    ['no SKILL.md', { 'a.md': 'A' }, 'It has no SKILL.md.'],
    ['no frontmatter', { 'SKILL.md': '# How' }, 'SKILL.md does not begin with frontmatter'],
    ['another name', { 'SKILL.md': SKILL.replace('name: pdf', 'name: PDF Forms') }, 'The name in SKILL.md'],
    ['no description', { 'SKILL.md': '---\nname: pdf\n---\n' }, 'The description in SKILL.md'],
  ])('MCP-207: a folder with %s is reported', (_what, files, problem) => {
    const [finding] = findingsOf(skill({ id: 'Docs.Pdf@1.0.0', folder: folderOf(files) }))
    expect(finding).toContain(problem)
  })
})
