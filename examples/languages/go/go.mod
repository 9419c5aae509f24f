module warrener.example/request

go 1.22

require (
	github.com/google/uuid v1.6.0
	github.com/rabbitmq/amqp091-go v1.16.0
)
