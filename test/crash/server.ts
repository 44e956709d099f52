import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'
import { approverKeyOf } from './approver-key.ts'
import { makeEffectTools } from './effect-tools.ts'
import { seededRandom } from './seeded-random.ts'

/** The server that gets killed: a child process of the driver. */
const { values } = parseArgs({
  options: {
    folder: { type: 'string', default: '' },
    port: { type: 'string', default: '0' },
    seed: { type: 'string', default: '1' },
  },
})
const { COLLET_KEY = '', CRASH_API_KEY = '' } = process.env

const tools = makeEffectTools(join(values.folder, 'effects.log'), seededRandom(Number(values.seed)))
const settings = testSettings({
  tools: requireTools(tools),
  server: {
    host: '127.0.0.1',
    port: Number(values.port),
    publicUrl: undefined,
    bodyLimitBytes: 1_048_576,
    allowedOrigins: [],
    maxConnections: 10_000,
  },
  store: `sqlite:${join(values.folder, 'collet.db')}`,
  dataFolder: values.folder,
  masterKey: Buffer.from(COLLET_KEY, 'base64'),
  auth: {
    apiKeys: [
      { id: 'crash', key: new Secret(CRASH_API_KEY), tenant: DEFAULT_TENANT, scopes: [] },
      {
        ...{ id: 'approver', tenant: DEFAULT_TENANT, scopes: ['approvals:*', 'admin:calls', 'calls:settle'] },
        key: new Secret(approverKeyOf(CRASH_API_KEY)),
      },
    ],
    jwt: undefined,
  },
  approvals: { ...DEFAULT_APPROVAL_RULES, maxParkedPerPrincipal: 100_000 },
  logLevel: 'error',
})

const server = await startServer(settings)
process.once('SIGTERM', async () => {
  await server.close()
  process.exit(0)
})
// Ends with the driver, even if the driver was killed.
process.stdin.resume().once('end', () => process.exit(1))
process.stdout.write(`ready ${new URL(server.url).port}\n`)
