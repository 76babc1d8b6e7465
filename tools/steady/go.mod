module github.com/rhumbmq/rhumb/tools/steady

go 1.26.0
