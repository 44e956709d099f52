import { globSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { prepareTool } from '#kernel/tool/prepare-tool'
import { checkSchema } from '#schema/check'
import { createSchemaValidator } from '#schema/validator'
import type { Discovery, OfferedTool } from '#sources/kit/source'
import { sized } from '../../size.ts'
import { openSource, SIGNAL } from './imported-api.ts'

const PACKAGES = resolve(import.meta.dirname, '../../../node_modules')
/** Compiling takes longest, and several documents have equal schemas. */
const MAX_COMPILED = 60
const LIMIT_MS = 60_000

/** Real descriptions and the number of their operations. */
const REAL = [
  ['@octokit/openapi/generated/api.github.com.json', 1_223],
  ['@netlify/open-api/dist/swagger.json', 181],
  ['@figma/rest-api-spec/openapi/openapi.yaml', 54],
  ['@scalar/galaxy/dist/3.1.yaml', 10],
  ['@readme/oas-examples/3.1/json/readme.json', 54],
  ['@readme/oas-examples/3.0/json/star-trek.json', 120],
  ['@readme/oas-examples/3.1/yaml/train-travel.yaml', 7],
  ['@readme/oas-examples/2.0/yaml/petstore.yaml', 20],
] as const

async function discover(path: string, options: object = {}): Promise<Discovery> {
  const { source, close } = openSource(
    { file: basename(path), ...options },
    { folder: join(PACKAGES, dirname(path)) },
  )
  try {
    return await source.discover(SIGNAL)
  } finally {
    await close()
  }
}

/** The findings of the kernel about a tool; its schemas are checked as written, because cycles are cut later. */
function problemsOf(tool: OfferedTool): readonly string[] {
  const { nativeName, title, description, requirements, policy, inputSchema, outputSchema } = tool
  const problems: string[] = []
  const report = (where: string, problem: string) => void problems.push(`${nativeName} ${where}: ${problem}`)
  const definition = {
    id: 'Api.Tool@1.0.0',
    catalogId: 'connector:api.tool',
    description,
    policy,
    input: {},
    output: {},
    run: () => null,
  }
  const named = {
    ...definition,
    ...(title === undefined ? {} : { title }),
    ...(requirements === undefined ? {} : { requirements }),
  }
  const prepared = prepareTool(named, { source: 'connector', describeParameters: false })
  if (prepared.tool === undefined) for (const { where, problem } of prepared.findings) report(where, problem)
  checkSchema(inputSchema, 'input', report, { references: 'allowed' })
  if (outputSchema !== null) checkSchema(outputSchema, 'output', report, { references: 'allowed' })
  return problems
}

/** Throws when a schema does not compile. */
function compile({ inputSchema, outputSchema }: OfferedTool): void {
  createSchemaValidator(inputSchema)({})
  if (outputSchema !== null) createSchemaValidator(outputSchema)({})
}

describe('real API descriptions', () => {
  it.each(REAL)(
    '%s gives %i tools that core accepts',
    async (path, count) => {
      const { tools } = await discover(path)
      expect(tools.length).toBe(count)
      expect(new Set(tools.map(({ nativeName }) => nativeName)).size).toBe(count)
      expect(tools.flatMap(problemsOf)).toEqual([])
      for (const tool of tools.slice(0, MAX_COMPILED)) compile(tool)
    },
    LIMIT_MS,
  )

  it(
    'read twice, they are identical',
    async () => {
      const [path] = REAL[0]
      const [first, second] = [await discover(path), await discover(path)]
      expect(JSON.stringify(second) === JSON.stringify(first)).toBe(true)
    },
    LIMIT_MS,
  )

  it("GitHub's lists name the next page, and its uploads go to their own server", async () => {
    const { tools } = await discover(REAL[0][0], {
      include: ['issues/list-for-repo', 'repos/upload-release-asset'],
    })
    const [list, upload] = tools
    expect(list?.outputSchema).toMatchObject({ properties: { body: { type: 'array' }, next: {} } })
    expect(upload?.binding).toMatchObject({ baseUrl: 'https://uploads.github.com', body: { form: 'binary' } })
  })
})

describe('descriptions that try one feature each', () => {
  const files = globSync('@readme/oas-examples/{2.0,3.0,3.1}/{json,yaml}/**/*.{json,yaml}', {
    cwd: PACKAGES,
  }).toSorted()

  it('exist', () => {
    expect(files.length).toBeGreaterThan(100)
  })

  it(
    'all become tools that the kernel accepts',
    async () => {
      const step = sized(3, 1)
      for (const file of files.filter((_file, at) => at % step === 0)) {
        const { tools } = await discover(file, { baseUrl: 'https://api.example.com' })
        expect(tools.flatMap(problemsOf), file).toEqual([])
        for (const tool of tools.slice(0, 5)) compile(tool)
      }
    },
    LIMIT_MS,
  )

  it('are equal in JSON and in YAML', async () => {
    for (const name of ['petstore', 'schema-types', 'train-travel', 'security']) {
      const of = async (form: string) =>
        (await discover(`@readme/oas-examples/3.1/${form}/${name}.${form}`)).tools
      expect(await of('yaml'), name).toEqual(await of('json'))
    }
  })
})
