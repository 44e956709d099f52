import { readFileSync } from 'node:fs'
import { defineConfig, tool } from 'collet'
import { z } from 'zod'

const { env } = process
/** The password comes as a file, which neither `docker inspect` nor a list of processes shows. */
const password = env.POSTGRES_PASSWORD_FILE ? readFileSync(env.POSTGRES_PASSWORD_FILE, 'utf8').trim() : ''

/** A replica in a container: callers need a key, and reach it under the name of the proxy. */
export default defineConfig({
  tools: [
    tool({
      id: 'Greeter.Greet@1.0.0',
      description: 'Greets a person by name.',
      input: z.object({ name: z.string().describe('The name of the person.') }),
      output: z.string(),
      policy: { safetyTier: 'pure', replay: 'deterministic' },
      run: ({ name }) => `Hello, ${name}!`,
    }),
  ],
  store: `postgres://collet:${encodeURIComponent(password)}@${env.POSTGRES_HOST ?? 'postgres'}/collet`,
  auth: { required: true },
  server: {
    host: '0.0.0.0',
    publicUrl: env.COLLET_PUBLIC_URL ?? 'https://localhost',
    // Longer than a proxy or a cluster takes to notice that a server stops.
    drainMs: 5_000,
    // For Prometheus, without a credential: only on the network that it shares with the replicas.
    metricsPort: 9464,
    metricsHost: env.COLLET_METRICS_HOST ?? '0.0.0.0',
    // For the other replicas: a call of a session that reaches the wrong replica is passed on to this port.
    internal: { host: env.COLLET_INTERNAL_HOST ?? '0.0.0.0', port: 4110 },
  },
})
