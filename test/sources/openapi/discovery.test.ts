import { afterEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'
import { type ImportedApi, importApi } from './imported-api.ts'
import { startRecordingServer } from './recording-server.ts'

let api: ImportedApi | undefined

afterEach(async () => {
  await api?.close()
  api = undefined
})

async function open(document: object, options: object = {}) {
  api = await importApi({ servers: [{ url: 'https://api.example.com/v1/' }], ...document }, options)
  return api
}

const names = ({ discovery }: ImportedApi) => discovery.tools.map(({ nativeName }) => nativeName)
const operation = (more: JsonObject = {}) => ({ responses: {}, ...more })

describe('names are readable and stable', () => {
  it('an operation is named by its id, otherwise by method and path', async () => {
    const imported = await open({
      paths: {
        '/pets': { get: operation({ operationId: 'listPets' }), post: operation() },
        '/pets/{petId}/photos': { get: operation() },
      },
    })
    expect(names(imported)).toEqual(['listPets', 'post_pets', 'get_pets_petId_photos'])
  })

  it('an id that is used twice is ignored, and two similar paths get different names', async () => {
    const paths = {
      '/a/{b}': { get: operation({ operationId: 'same' }) },
      '/a/b': { get: operation({ operationId: 'same' }) },
      '/c': { get: operation({ operationId: 'same' }) },
    }
    const first = names(await open({ paths }))
    expect(first).toEqual([
      expect.stringMatching(/^get_a_b_[0-9a-f]{8}$/),
      expect.stringMatching(/^get_a_b_/),
      'get_c',
    ])
    await api?.close()
    const turned = names(await open({ paths: Object.fromEntries(Object.entries(paths).toReversed()) }))
    expect(turned.toSorted()).toEqual(first.toSorted())
  })

  it('operations that differ by a fragment are tools with one address', async () => {
    const server = await startRecordingServer()
    try {
      const path = '/files/{file_id}'
      const imported = await importApi(
        {
          servers: [{ url: server.origin }],
          paths: {
            [path]: { get: operation() },
            [`${path}#add_shared_link`]: { put: operation() },
            [`${path}#get_shared_link`]: { get: operation({ operationId: 'getLink' }) },
            '/#Action=List{What}': { get: operation() },
          },
        },
        {},
        [server.host],
      )
      api = imported
      expect(names(imported)).toEqual([
        'get_files_file_id',
        'put_files_file_id_add_shared_link',
        'getLink',
        'get_Action_List_What',
      ])
      await imported.call('put_files_file_id_add_shared_link', { file_id: 'a/b' })
      await imported.call('getLink', { file_id: 'c' })
      await imported.call('get_Action_List_What', {})
      expect(imported.tool('get_Action_List_What').inputSchema.properties).toEqual({})
      expect(server.requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
        'PUT /files/a%2Fb',
        'GET /files/c',
        'GET /',
      ])
    } finally {
      await server.close()
    }
  })

  it('parameters with one name are distinguished by their location, and names are valid for models', async () => {
    const parameters = [
      { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
      { name: 'id', in: 'query', schema: { type: 'integer' } },
      { name: 'filter[name]', in: 'query', schema: {} },
      { name: 'filter{name}', in: 'query', schema: {} },
      { name: 'body', in: 'query', schema: {} },
    ]
    const requestBody = { content: { 'application/json': {} } }
    const { tool } = await open({
      paths: { '/t/{id}': { post: operation({ operationId: 'op', parameters, requestBody }) } },
    })
    const { properties = {} } = tool('op').inputSchema
    const found = Object.keys(properties ?? {})
    expect(found.every((name) => /^[A-Za-z0-9_.-]{1,64}$/.test(name))).toBe(true)
    expect(found.slice(0, 2)).toEqual(['path_id', 'query_id'])
    expect([new Set(found).size, found.slice(-2)]).toEqual([6, ['body', 'request_body']])
  })
})

describe('policy', () => {
  const paths = {
    '/t': Object.fromEntries(
      ['get', 'head', 'options', 'put', 'delete', 'post', 'patch', 'trace'].map((method) => [
        method,
        operation({ operationId: method }),
      ]),
    ),
  }

  it('OWP-33, OWP-37: follows from the method, and traffic goes through the guarded fetch', async () => {
    const { discovery } = await open({ paths })
    const policies = Object.fromEntries(discovery.tools.map(({ nativeName, policy }) => [nativeName, policy]))
    const read = { safetyTier: 'read', replay: 'idempotent', egress: 'safe-fetch' }
    const idempotent = { safetyTier: 'write', replay: 'idempotent', egress: 'safe-fetch' }
    const once = { safetyTier: 'write', replay: 'non-deterministic', egress: 'safe-fetch' }
    expect(policies).toEqual({
      get: read,
      head: read,
      options: read,
      put: idempotent,
      delete: idempotent,
      post: once,
      patch: once,
    })
  })

  it('unless the operator overrides it', async () => {
    const options = {
      policy: { approval: 'always' },
      tools: { post: { safetyTier: 'read', replay: 'idempotent' } },
    }
    const { tool, source, discovery } = await open({ paths }, options)
    expect(tool('post').policy).toMatchObject({
      safetyTier: 'read',
      replay: 'idempotent',
      approval: 'always',
    })
    expect(tool('put').policy).toMatchObject({ safetyTier: 'write', approval: 'always' })
    for (const offered of discovery.tools) expect(source.policyFor(offered)).toEqual(offered.policy)
  })
})

describe('filters', () => {
  const paths = {
    '/a': {
      get: operation({ operationId: 'a.get', tags: ['x', 'y'] }),
      post: operation({ operationId: 'a.post', tags: ['y'] }),
    },
    '/b': { delete: operation({ operationId: 'b.delete', deprecated: true }) },
  }
  it.each([
    ['by tag', { tags: ['x'] }, ['a.get']],
    ['by method', { methods: ['post', 'delete'] }, ['a.post', 'b.delete']],
    ['by name', { include: ['a.*'], exclude: ['*.post'] }, ['a.get']],
    ['without deprecated ones', { deprecated: 'exclude' }, ['a.get', 'a.post']],
  ])('%s', async (_title, options, expected) => {
    expect(names(await open({ paths }, options))).toEqual(expected)
  })
})

describe('options without effect are reported', () => {
  const paths = { '/a': { get: operation({ operationId: 'a' }) } }

  it('a tool in the options that the document does not have, and filters that leave nothing', async () => {
    const { discovery } = await open({ paths }, { tools: { b: { approval: 'always' } }, tags: ['none'] })
    expect(discovery.warnings).toEqual(['The filters of this source exclude every operation.'])
  })

  it('an unchanged document is not parsed again', async () => {
    const { source, discovery } = await open({ paths })
    expect(await source.discover(new AbortController().signal)).toBe(discovery)
    expect(source.health()).toEqual({ state: 'ready' })
  })
})

describe('servers', () => {
  const get = operation({ operationId: 'op' })
  const base = async (document: JsonObject, options: object = {}) =>
    (await open({ paths: { '/t': { get } }, ...document }, options)).tool('op').binding.baseUrl

  it('the most specific one is used: of the operation, of the path, of the document', async () => {
    expect(await base({})).toBe('https://api.example.com/v1')
    await api?.close()
    const servers = [{ url: 'https://path.example' }]
    expect(await base({ paths: { '/t': { get, servers } } })).toBe('https://path.example')
    await api?.close()
    const own = operation({ operationId: 'op', servers: [{ url: 'https://own.example/x' }] })
    expect(await base({ paths: { '/t': { get: own, servers } } })).toBe('https://own.example/x')
    await api?.close()
    expect(await base({ paths: { '/t': { get: own } } }, { baseUrl: 'https://mine.example/' })).toBe(
      'https://mine.example',
    )
  })

  const server = {
    url: 'https://{region}.example.com/{version}',
    variables: { region: { default: 'eu', enum: ['eu', 'us'] }, version: { default: 'v2' } },
  }
  it('a host without a scheme in a file is taken for https', async () => {
    expect(await base({ servers: [{ url: '//stats.example.com/stats' }] })).toBe(
      'https://stats.example.com/stats',
    )
  })

  it('variables have their defaults or the values of the operator', async () => {
    expect(await base({ servers: [server] })).toBe('https://eu.example.com/v2')
    await api?.close()
    expect(await base({ servers: [server] }, { variables: { region: 'us' } })).toBe(
      'https://us.example.com/v2',
    )
  })

  it.each([
    [
      'a value that is not in the enum',
      server,
      { variables: { region: 'moon' } },
      /"region" must be one of: eu, us/,
    ],
    ['a variable without a value', { url: 'https://{x}.example' }, {}, /write `variables: \{ x: … \}`/],
    ['a relative address in a file', { url: '/v1' }, {}, /not a full address: write `baseUrl`/],
    ['a host without a name', { url: '//' }, {}, /not a full address: write `baseUrl`/],
    ['another scheme', { url: 'wss://a.example' }, {}, /not a plain http/],
    ['credentials in it', { url: 'https://user:pass@a.example' }, {}, /not a plain http/],
  ])('%s: the tool is left out and the operator is notified', async (_title, one, options, expected) => {
    const { discovery } = await open({ paths: { '/t': { get } }, servers: [one] }, options)
    expect(discovery.tools).toEqual([])
    expect(discovery.warnings.join()).toMatch(expected)
  })

  it('a body of GET or HEAD is not sent, and a warning names the tools', async () => {
    const requestBody = (required: boolean) => ({ required, content: { 'application/json': { schema: {} } } })
    const { discovery, tool } = await open({
      servers: [{ url: 'https://a.example' }],
      paths: {
        '/a': { get: operation({ operationId: 'a', requestBody: requestBody(true) }) },
        '/b': { get: operation({ operationId: 'b', requestBody: requestBody(false) }) },
        '/c': { head: operation({ operationId: 'c', requestBody: requestBody(false) }) },
      },
    })
    expect(tool('a').inputSchema.properties).toEqual({})
    expect(discovery.warnings).toEqual([
      'Sent without the body that the document requires, because GET and HEAD have no body, so the service may refuse the call: a.',
      'Sent without the body that the document allows, because GET and HEAD have no body: b, c.',
    ])
  })

  it('credentials without encryption cause a warning', async () => {
    const components = { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } }
    const document = { components, security: [{ key: [] }], servers: [{ url: 'http://api.example.com' }] }
    const { discovery } = await open({ paths: { '/t': { get } }, ...document })
    expect(discovery.warnings).toEqual(['Credentials are sent to http://api.example.com without encryption.'])
  })
})

describe('text', () => {
  it('summary and description become title and description, and a tool always has a description', async () => {
    const { tool } = await open({
      paths: {
        '/a': {
          get: operation({
            operationId: 'a',
            summary: 'List.',
            description: 'All of them.',
            deprecated: true,
          }),
        },
        '/b': { get: operation({ operationId: 'b' }) },
        '/c': { get: operation({ operationId: 'c', description: 'x'.repeat(9_000) }) },
      },
    })
    expect([tool('a').title, tool('a').description]).toEqual([
      'List.',
      'Deprecated.\n\nList.\n\nAll of them.',
    ])
    expect([tool('b').title, tool('b').description]).toEqual([undefined, 'GET /b'])
    expect(tool('c').description.length).toBe(4_000)
  })
})

describe('options', () => {
  it.each([
    [{}, /either `url` or `file`/],
    [{ url: 'https://a.example', file: 'a.json' }, /either `url` or `file`/],
    [{ url: 'ftp://a.example' }, /an http or https URL/],
    [{ url: 'https://u:p@a.example' }, /without user name/],
    [{ file: 'a', security: { x: {} } }, /either `provider` .* or `secret`/],
    [{ file: 'a', security: { x: { provider: 'p', secret: 's' } } }, /either `provider` .* or `secret`/],
    [{ file: 'a', metods: ['get'] }, /metods/],
    [{ file: 'a', headers: { 'a b': 'x' } }, /the name of a header/],
    [{ file: 'a', headers: { a: 'x\n' } }, /printable ASCII/],
  ])('%j is refused with advice', (options, expected) => {
    const parsed = OPENAPI_OPTIONS.safeParse({ type: 'openapi', ...options })
    expect(parsed.error?.message).toMatch(expected)
  })

  it('headers for the document are secrets', () => {
    const options = OPENAPI_OPTIONS.parse({ type: 'openapi', file: 'a', headers: { 'X-Key': 'canary' } })
    expect(JSON.stringify(options)).not.toContain('canary')
  })
})
