import { defineConfig } from 'collet'

// Every setting is explained when you hover over it.
export default defineConfig({
  tools: ['tools/*.ts'],
})
