import { defineConfig, tool } from 'collet'
import { z } from 'zod'

/** A server for a container: everybody needs a key, and callers reach it under the name of the proxy. */
export default defineConfig({
  tools: [
    tool({
      id: 'Greeter.Greet@1.0.0',
      description: 'Greets somebody.',
      input: z.object({ name: z.string().describe('Whom to greet.') }),
      output: z.string(),
      policy: { safetyTier: 'pure', replay: 'deterministic' },
      run: ({ name }) => `Hello, ${name}!`,
    }),
  ],
  auth: { required: true },
  server: {
    host: '0.0.0.0',
    publicUrl: process.env.COLLET_PUBLIC_URL ?? 'https://localhost',
    // Not published: only Prometheus in the same network reads it.
    metricsPort: 9464,
    metricsHost: '0.0.0.0',
    // Not published either: a call of a session that reaches the other replica is passed on here.
    internal: { host: '0.0.0.0', port: 4110 },
  },
})
